"""The project's own promises as checkov policies; checkov loads the files of a folder that has this file."""
