"""What makes brokers a cluster: membership, leader, owners of topics, balance."""
