"""The HTML reports, each a single file: `page` for a run, `campaign_page` for many, `comparison_page` for two campaigns.

`run_data` reads a run's folder, `page` and `tables` write the HTML, and the scripts in `assets` draw the charts. They draw on
canvases, without a plotting library: the panels share one time axis, one zoom and one pointer, and no library has the lanes
(phase as colour, role as an edge, epoch as a band, downtime and pauses as hatching, evidence on top).
"""
