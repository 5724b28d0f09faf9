//! Gossip agents on a network.
