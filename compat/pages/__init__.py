"""Reports as HTML, to look at: pieces made from data, and pages of them; one file, which needs nothing else."""
