"""What papers say in sentences, weighed on their numbers and on ours."""
