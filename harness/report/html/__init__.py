"""The report of one run as a single HTML file: read the folder (`story`), write the page (`page`), draw it (`assets`).

Why no plotting library: every panel shares one time axis, one zoom and one pointer, and the lanes (phase as colour, role as an
edge, epoch as a band, downtime and pauses as hatching, evidence on top) are no chart type that a library has. The ones
that can be inlined weigh 1 to 5 MB in every report; the scripts here weigh about 30 kB and draw 100,000 operations in
milliseconds, because they paint pixels, not elements.
"""
