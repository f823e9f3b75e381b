"""`make demo`: the product at work on a real control plane, told as a story and judged at the end.

Settings from the environment: PACE (1 = for people, 0 = as fast as the cluster allows), KEEP=1 (stay up afterwards),
RECORD=docs/recordings (draw the picture of the README anew).
"""
