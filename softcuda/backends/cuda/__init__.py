"""What the CUDA backends share: plans of launches, as pure data; nothing here calls a driver."""
