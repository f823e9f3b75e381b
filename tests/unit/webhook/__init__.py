"""The webhook's decisions and borders, with fakes behind its ports."""
