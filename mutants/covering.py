"""The tests that a change of a file can make fail."""

# By the beginning of a file's path; each list has the quickest tests first.
TESTS = {
    "harness/": ["tests/integration/test_run_processes.py"],
    "harness/client/": [
        "tests/unit/harness/client",
        "tests/unit/harness/workload/test_workload.py",
        "tests/integration/test_client_sessions.py",
    ],
    "harness/workload/": ["tests/unit/harness/workload"],
    "model/": ["tests/unit/model/oracle"],
    "node/": [
        "tests/unit/node/test_node_process.py",
        "tests/unit/node/test_append_file.py",
        "tests/unit/node/test_commands.py",
        "tests/integration/test_client_sessions.py",
        "tests/integration/test_run_processes.py",
        "tests/integration/test_replay_processes.py",
    ],
    "node/clients/": ["tests/unit/node/clients"],
    "node/core/": ["tests/unit/node/core"],
    "node/net/": ["tests/unit/node/net", "tests/conformance/test_channels.py", "tests/unit/harness/client"],
    "node/store/": [
        "tests/unit/node/store",
        "tests/conformance/test_disk_contract.py",
        "tests/integration/test_mounted_nodes.py",
    ],
    "node/tree/": ["tests/unit/node/tree"],
}


def covering_tests(*files: str) -> list[str]:
    """Return the tests of these files: first those of the most specific folder."""
    found = [prefix for prefix in TESTS if any(file.startswith(prefix) for file in files)]
    return list(dict.fromkeys(test for prefix in sorted(found, key=len, reverse=True) for test in TESTS[prefix]))
