"""What a session for little data goes without: things of Spark's and Hadoop's that take a second, and change nothing here.

Each of the two asks for a class, and gets one of these; Spark's own compiler makes them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext

HADOOP = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",  # no file of checksums for each file
    "mapreduce.fileoutputcommitter.algorithm.version": "1",  # as Spark has it
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",  # no file that says that the others are there
}
_CLASSES = """package zab;

public class Small {
    /** Without a process for the permissions of each file and folder that is made, which are as Hadoop wants them anyway. */
    public static class Files extends org.apache.hadoop.fs.RawLocalFileSystem {
        public void setPermission(org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission permission) { }
    }

    /** Finds all but the extensions of a session: Spark's machine learning has one, and it takes half a second. */
    public static class Finds extends ClassLoader {
        public Finds(ClassLoader parent) { super(parent); }

        public java.util.Enumeration getResources(String name) throws java.io.IOException {
            boolean extensions = name.endsWith("SparkSessionExtensionsProvider");
            return extensions ? java.util.Collections.emptyEnumeration() : super.getResources(name);
        }
    }
}
"""


def classes(jvm: Any) -> Any:
    """The class loader that has them, beside all that this thread finds."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_CLASSES)
    return compiler.getClassLoader()


@contextmanager
def without_extensions(jvm: Any, loader: Any) -> Iterator[None]:
    """What this thread starts meanwhile has none. `loader`: see `classes`."""
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    try:
        thread.setContextClassLoader(loader)
        thread.setContextClassLoader(getattr(jvm, "zab.Small$Finds")(before))
        yield
    finally:
        thread.setContextClassLoader(before)


def only_here(context: SparkContext, loader: Any) -> None:
    """Have Hadoop work with files of this machine only: with few of its eleven hundred settings, which travel with every task that
    writes. `loader`: see `classes`."""
    view: Any = context._jvm
    settings = context._jsc.hadoopConfiguration()
    settings.setClassLoader(loader)
    settings.set("fs.file.impl", "zab.Small$Files")
    files = view.org.apache.hadoop.fs.FileSystem
    files.closeAll()
    files.get(view.java.net.URI("file:///"), settings)  # the only one from now on
    view.org.apache.hadoop.mapreduce.util.ConfigUtil.loadResources()  # the last that brings settings back
    settings.clear()
    for name, value in HADOOP.items():
        settings.set(name, value)
