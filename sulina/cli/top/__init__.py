"""``sulina top``: brokers, busiest topics and subscriptions that need attention, live."""
