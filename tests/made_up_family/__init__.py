"""A family of one type, `Money`, as a user of stateshift would write it: all about its types in one folder."""
