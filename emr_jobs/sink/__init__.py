"""Publishing rows to topics: the writing half of the data source ``sulina``."""
