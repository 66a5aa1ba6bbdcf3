"""REST service and web page."""
