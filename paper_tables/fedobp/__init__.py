"""FedOBP: tables 1-5 and figures 2-7."""
