"""Commands that administer topics, subscriptions, schemas, access and the cluster."""
