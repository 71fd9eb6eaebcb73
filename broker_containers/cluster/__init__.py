"""The cluster services of a broker: membership, leader election, topic ownership, balance."""
