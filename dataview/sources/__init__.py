"""Where data lies: one file per kind of store, all speaking the protocol of `protocol`."""
