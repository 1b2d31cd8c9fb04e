"""Questions with answers that code can check, asked of Planloom and of two baselines."""
