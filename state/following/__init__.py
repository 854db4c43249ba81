"""Migration while the job runs: its newest checkpoint is converted, then what changed in each next one."""
