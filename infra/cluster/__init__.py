"""What runs messaging: brokers, storage nodes, etcd, their images and the load balancer."""
