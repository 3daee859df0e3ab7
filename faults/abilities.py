"""The abilities that a fault may need of a backend, beyond nodes that can be started, killed and stopped."""

from enum import Enum


class Ability(Enum):
    """One ability of a backend. The value completes the sentence "this backend has no ..."."""

    PAUSE = "way to pause a node's process"
    LINKS = "proxies between its nodes"
    ONE_WAY_REFUSAL = "way to refuse connections in one direction only"
    LEADER = "way to name the leader"
    NODE_STATE = "way to read a running node's own role and log"
    RELEASES = "way to start a node with another release"
    WIPE = "way to start a node with an empty disk"
    DISK_FILES = "disk whose files can be damaged while its node is down"
    LOG_RECORDS = "log whose records can be told apart"
    UNSYNCED = "disk that loses unsynced bytes with its process"
    FILE_SYSTEM = "file system of its own for a node's disk"
    DISK_TROUBLE = "disk that can be slow, full or failing while its node runs"
    OBSERVERS = "nodes that do not vote"
    MEMBERS = "way to change its members"
    CRASH_POINTS = "points at which a node can be made to die, pause or fail"
    CLOCKS = "separate clock in each node"
    FRAMES = "links that can delay, lose, change, misroute or repeat single frames"
    CONTAINERS = "containers"
    FIRST_DISKS = "way to fill disks before the first start"
    TUNING = "timing and limits that a scenario could set"
    RECORDING = "recording of its nodes' inputs"
    SESSIONS = "sessions with ephemeral znodes and watches"
    NEW_SESSIONS = "clients that could end their sessions and begin others"
    FINAL_STATE = "way to read one node's state at the end"


# What our own nodes do not have.
NOT_OURS = frozenset({Ability.SESSIONS, Ability.OBSERVERS, Ability.MEMBERS, Ability.RELEASES})
