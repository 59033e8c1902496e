"""The profile: which backend computes each op at each size, read from a file people can edit."""
