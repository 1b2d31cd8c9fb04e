"""The families whose cases are to be done, not answered: tools, changes and talk."""
