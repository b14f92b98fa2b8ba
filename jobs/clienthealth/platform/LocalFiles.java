package clienthealth.platform;

import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.codehaus.janino.Compiler;

/**
 * A local file system for Hadoop that starts no programs. PySpark does not have Hadoop's native library. Without this
 * library, Hadoop starts `chmod` and `readlink` for each file. This class calls java.nio instead. It writes the same
 * files and checksums as Hadoop's own LocalFileSystem.
 */
public final class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    /** Compiles a source file into a folder; the compiler is among Spark's jars, so a JRE suffices. */
    public static void main(String[] arguments) throws Exception {
        Compiler compiler = new Compiler();
        compiler.setDestinationDirectory(new File(arguments[1]), false);
        compiler.compile(new File[] {new File(arguments[0])});
    }

    /** LocalFiles for Hadoop's `FileContext`. Spark's checkpoints and Delta's log are written through a FileContext. */
    public static final class Context extends ChecksumFs {
        public Context(URI uri, Configuration configuration) throws IOException, URISyntaxException {
            super(new Unchecked(uri, configuration));
        }
    }

    static final class Unchecked extends DelegateToFileSystem {
        Unchecked(URI uri, Configuration configuration) throws IOException, URISyntaxException {
            super(uri, new Raw(), configuration, FsConstants.LOCAL_FS_URI.getScheme(), false);
        }

        @Override
        public boolean isValidName(String name) {
            return true;
        }
    }

    static final class Raw extends RawLocalFileSystem {
        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            Set<PosixFilePermission> wanted = EnumSet.noneOf(PosixFilePermission.class);
            for (PosixFilePermission one : PosixFilePermission.values()) {
                if ((permission.toShort() & 0400 >> one.ordinal()) != 0) {
                    wanted.add(one);
                }
            }
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
            } else {
                Files.setPosixFilePermissions(pathToFile(path).toPath(), wanted);
            }
        }

        @Override
        public FileStatus getFileLinkStatus(Path path) throws IOException {
            boolean link = Files.isSymbolicLink(pathToFile(path).toPath());
            return link ? super.getFileLinkStatus(path) : getFileStatus(path);
        }
    }
}
