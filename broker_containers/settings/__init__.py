"""Settings that can change while brokers run: what they are, where they are stored."""
