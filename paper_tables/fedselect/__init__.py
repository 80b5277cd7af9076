"""FedSelect: tables 1-3 and figures 2-4."""
