"""The report of one run as a single HTML file: read the folder (`run_data`), write the page (`page`), draw it (`assets`).

The scripts draw on canvases, without a plotting library: the panels share one time axis, one zoom and one pointer, and
no library has the lanes (phase as colour, role as an edge, epoch as a band, downtime and pauses as hatching, evidence on top).
"""
