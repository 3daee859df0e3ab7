"""The tests that a change of a file can make fail."""

# By the beginning of a file's path; each list has the quickest tests first.
TESTS = {
    "faults/": [
        "tests/unit/faults",
        "tests/simulated/test_faults_without_effect.py",
        "tests/integration/test_toxiproxy.py",
        "tests/integration/test_run_processes.py",
    ],
    "faults/containers.py": ["tests/unit/faults/test_cpu_limit.py", "tests/unit/faults/test_net_disconnect.py"],
    "faults/filesystem/": [
        "tests/unit/faults/filesystem",
        "tests/integration/test_filesystem.py",
        "tests/integration/test_mounted_nodes.py",
    ],
    "harness/": ["tests/integration/test_run_processes.py"],
    "harness/backends/": ["tests/unit/harness/backends"],
    # Of the next three, the tests that need an engine, other systems or ZooKeeper's servers are left out.
    "harness/backends/containers/": ["tests/unit/harness/backends/containers"],
    "harness/backends/system/": ["tests/unit/harness/backends/system"],
    "harness/backends/zookeeper/": ["tests/unit/harness/backends/zookeeper"],
    "harness/backends/processes/": [
        "tests/unit/harness/backends/processes",
        "tests/integration/test_filesystem.py",
        "tests/integration/test_mounted_nodes.py",
        "tests/integration/test_up.py",
    ],
    "harness/cli/": [
        "tests/unit/harness/cli",
        "tests/simulated/test_explore_command.py",
        "tests/integration/test_interrupt.py",
    ],
    "harness/client/": [
        "tests/unit/harness/client",
        "tests/unit/harness/workload/test_workload.py",
        "tests/unit/model/world/test_world_load.py",
        "tests/integration/test_client_sessions.py",
    ],
    "harness/explore/": [
        "tests/unit/harness/shrink",
        "tests/simulated/test_kill_matrix.py",
        "tests/simulated/test_guide.py",
        "tests/simulated/test_explore_command.py",
        "tests/simulated/test_swarm.py",
    ],
    "harness/live/": [
        "tests/unit/harness/live",
        "tests/conformance/test_standing_worlds.py",
        "tests/simulated/test_plugin_ensembles.py",
        "tests/integration/test_up.py",
    ],
    "harness/report/": ["tests/unit/harness/report", "tests/simulated/test_chain_of_defects.py"],
    "harness/results/": [
        "tests/unit/harness/results",
        "tests/unit/harness/report",
        "tests/unit/harness/shrink",
        "tests/unit/harness/runs",
        "tests/unit/harness/live",
        "tests/simulated/test_edited_runs.py",
    ],
    "harness/runs/": [
        "tests/unit/harness/runs",
        "tests/unit/harness/live",
        "tests/unit/harness/cli/test_up.py",
        "tests/unit/model/replay",
        "tests/simulated/test_left_alone.py",
        "tests/simulated/test_node_errors.py",
        "tests/integration/test_interrupt.py",
    ],
    "harness/shrink/": ["tests/unit/harness/shrink", "tests/simulated/test_shrink_scenarios.py"],
    "harness/testing/": [
        "tests/unit/harness/testing",
        "tests/simulated/test_plugin_ensembles.py",
        "tests/integration/test_plugin_sessions.py",
    ],
    "harness/workload/": [
        "tests/unit/harness/workload",
        "tests/unit/model/world/test_world_load.py",
        "tests/integration/test_client_sessions.py",
    ],
    "model/": ["tests/unit/model/oracle"],
    "model/oracle/properties/history.py": ["tests/unit/model/oracle/test_history.py"],
    "model/oracle/properties/sessions.py": ["tests/unit/model/oracle/test_sessions.py"],
    "model/oracle/properties/sync.py": ["tests/unit/model/oracle/test_sessions.py"],
    "model/oracle/properties/watches.py": ["tests/unit/model/oracle/test_sessions.py"],
    "model/oracle/transactions.py": ["tests/unit/model/oracle/test_transactions.py"],
    "model/oracle/version_names.py": ["tests/unit/model/oracle/test_version_names.py"],
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
    "pipeline/": [
        "tests/unit/pipeline",
        "tests/integration/test_pipeline_ingest.py",
        "tests/integration/test_pipeline_judge.py",
        "tests/integration/test_pipeline_metrics.py",
    ],
}


def covering_tests(*files: str) -> list[str]:
    """Return the tests of these files: first those of the most specific folder."""
    found = [prefix for prefix in TESTS if any(file.startswith(prefix) for file in files)]
    return list(dict.fromkeys(test for prefix in sorted(found, key=len, reverse=True) for test in TESTS[prefix]))
