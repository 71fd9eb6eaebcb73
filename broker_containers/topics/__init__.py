"""Topics: their producers, subscriptions, retention and tiering."""
