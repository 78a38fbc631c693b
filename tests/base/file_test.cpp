// Reading and mapping files, and atomic writes: killed, refused, or by several threads.
#include "stoker/base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <new>
#include <thread>

#include "stoker/base/error.h"
#include "support/page_cache.h"
#include "support/refused_call.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using stoker::testing::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void put(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}

std::vector<std::string> names_in(const TempDir& directory) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
        names.push_back(entry.path().filename().string());
    }
    return names;
}

// True if the text is one letter repeated: a mix of two writes is not.
bool is_whole(const std::string& text) {
    return !text.empty() && text.find_first_not_of(text.front()) == std::string::npos;
}

TEST(Folder, ReadsItsFilesByName) {
    const TempDir directory;
    std::filesystem::create_directory(directory / "cat");
    put(directory / "cat/1.jpg", "content");
    put(directory / "empty", "");
    const Folder folder(directory.path());
    Buffer buffer;
    EXPECT_TRUE(folder.read_file("cat/1.jpg", buffer));
    EXPECT_EQ(text_of(buffer.bytes()), "content");
    EXPECT_TRUE(folder.read_file("empty", buffer));
    EXPECT_EQ(buffer.size(), 0U);
    const auto error = [&](const std::string& name) {
        try {
            folder.read_file(name, buffer);
        } catch (const DataError& found) {
            return std::string(found.what());
        }
        return std::string("no error");
    };
    EXPECT_EQ(error("cat/2.jpg"),
              "[" + directory.path().string() + ": cat/2.jpg] expected a readable file, got no file of that name");
    EXPECT_THAT(error("cat/1.jpg/2.jpg"), HasSubstr("no file of that name"));
    EXPECT_THAT(error("cat"), HasSubstr("got a directory"));
    EXPECT_THAT(error(std::string(5000, 'n')), HasSubstr("too long"));
    std::filesystem::create_symlink("absent", directory / "dangling");
    EXPECT_THAT(error("dangling"), HasSubstr("got a link to a file that does not exist"));
    std::filesystem::create_symlink("circle", directory / "circle");
    EXPECT_THAT(error("circle"), HasSubstr("got a link that leads back to itself"));
    ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
    EXPECT_THAT(error("pipe"), HasSubstr("got a named pipe"));
    ASSERT_EQ(::mknod((directory / "socket").c_str(), S_IFSOCK | 0600, 0), 0);
    EXPECT_THAT(error("socket"), HasSubstr("got a socket"));
    if (::geteuid() != 0) {
        std::filesystem::permissions(directory / "cat/1.jpg", std::filesystem::perms::none);
        EXPECT_THAT(error("cat/1.jpg"), HasSubstr("permission was denied"));
    }
    EXPECT_THROW(Folder(directory / "absent"), IoError);
    EXPECT_THROW(Folder(directory / "empty"), IoError);
    EXPECT_TRUE(folder.will_need("absent")) << "there is nothing to fetch";
}

// Errors of the process, the disk or the whole folder are not the file's.
TEST(Folder, AnErrorOfTheSystemIsAnIoError) {
    const TempDir directory;
    std::filesystem::create_directory(directory / "data");
    put(directory / "data/f", "content");
    const Folder folder(directory / "data");
    Buffer buffer;
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    std::string said;  // examined later: UBSan opens pipes for its checks
    try {
        folder.read_file("f", buffer);
    } catch (const IoError& error) {
        said = error.what();
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_THAT(said, HasSubstr("too many files are open"));
    EXPECT_NO_THROW(folder.read_file("f", buffer));
    std::filesystem::remove_all(directory / "data");
    EXPECT_THAT([&] { folder.read_file("f", buffer); }, ThrowsMessage<IoError>(HasSubstr("got a removed folder")));
}

TEST(Folder, ReportsWhatWasNotCached) {
    const TempDir directory;
    put(directory / "f", std::string(1'000'000, 'f'));
    const Folder folder(directory.path());
    if (!stoker::testing::drop_from_cache(directory / "f")) {
        GTEST_SKIP() << "this file system does not drop pages on request";
    }
    Buffer buffer;
    EXPECT_FALSE(folder.read_file("f", buffer));
    EXPECT_EQ(text_of(buffer.bytes()), std::string(1'000'000, 'f'));
    EXPECT_TRUE(folder.read_file("f", buffer));
    EXPECT_TRUE(folder.will_need("f"));
    ASSERT_TRUE(stoker::testing::drop_from_cache(directory / "f"));
    EXPECT_FALSE(folder.will_need("f"));
    const MappedFile file(directory / "f");
    for (int tries = 0; !stoker::testing::in_memory(file.bytes()) && tries < 5000; ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(stoker::testing::in_memory(file.bytes()));
}

TEST(File, ReportsWhatIsInMemoryAndFetchesTheRest) {
    const TempDir directory;
    constexpr std::size_t kSize = 8'000'000;
    put(directory / "f", std::string(kSize, 'f'));
    const File file(directory / "f");
    EXPECT_FALSE(file.in_memory(kSize, 1)) << "beyond the end";
    EXPECT_FALSE(file.in_memory(kSize - 10, 21));
    file.will_need(kSize, 1000);  // does nothing
    if (!stoker::testing::drop_from_cache(directory / "f")) {
        GTEST_SKIP() << "this file system does not drop pages on request";
    }
    constexpr std::uint64_t kBegin = 3'000'000;
    constexpr std::uint64_t kPiece = 100'000;
    const MappedFile map(file);
    const auto piece = map.bytes().subspan(kBegin, kPiece);
    bool was_cold = false;
    bool fetched = false;
    // A look also starts a read of a few pages: on a busy machine it may end before the answer.
    for (int tries = 0; tries < 20 && !fetched; ++tries) {
        ASSERT_TRUE(stoker::testing::drop_from_cache(directory / "f"));
        was_cold = !file.in_memory(kBegin, kPiece) || was_cold;
        file.will_need(kBegin, kPiece);
        for (int waits = 0; !stoker::testing::in_memory(piece) && waits < 500; ++waits) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        fetched = was_cold && stoker::testing::in_memory(piece);
    }
    EXPECT_TRUE(was_cold);
    EXPECT_TRUE(fetched);
    EXPECT_TRUE(file.in_memory(kBegin, kPiece));
    EXPECT_FALSE(stoker::testing::in_memory(map.bytes().last(1000))) << "was not requested";
}

TEST(MappedFile, ShowsTheBytesOfAFile) {
    const TempDir directory;
    const std::string text("a\0b\nc", 5);
    put(directory / "f", text);
    MappedFile file(directory / "f");
    EXPECT_EQ(text_of(file.bytes()), text);

    MappedFile moved(std::move(file));
    EXPECT_TRUE(file.bytes().empty());  // NOLINT(bugprone-use-after-move): a moved-from map is empty
    EXPECT_EQ(text_of(moved.bytes()), text);
    put(directory / "g", "other");
    moved = MappedFile(directory / "g");
    EXPECT_EQ(text_of(moved.bytes()), "other");
    std::filesystem::remove(directory / "g");
    EXPECT_EQ(text_of(moved.bytes()), "other") << "a map outlives the name of its file";
}

TEST(MappedFile, OfAnEmptyFileHasNoBytes) {
    const TempDir directory;
    put(directory / "empty", "");
    EXPECT_TRUE(MappedFile(directory / "empty").bytes().empty());
}

TEST(MappedFile, OfAnOpenFileIsThatFileWhateverItsNameMeansNow) {
    const TempDir directory;
    put(directory / "f", "checked");
    MappedFile map;
    {
        const File file(directory / "f");
        write_file(directory / "f", "another");
        map = MappedFile(file);
        std::vector<std::byte> read(7);
        file.read(0, read);
        EXPECT_EQ(text_of(read), "checked");
    }
    EXPECT_EQ(text_of(map.bytes()), "checked") << "a map outlives its descriptor";
    EXPECT_THAT([&] { MappedFile(File(directory.path())); }, ThrowsMessage<IoError>(HasSubstr("a directory")));
}

TEST(File, IsScarceWhereHalfOfTheDescriptorsAreOpen) {
    const TempDir directory;
    put(directory / "f", "x");
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit tight{64, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
    std::vector<File> files;
    while (files.size() < 64 && !files.emplace_back(directory / "f").scarce()) {
    }
    EXPECT_LE(files.size(), 33u);  // fewer by the descriptors that were open before
    EXPECT_GE(files.size(), 10u);
    EXPECT_TRUE(File(directory / "f").scarce());
    files.erase(files.begin() + static_cast<std::ptrdiff_t>(files.size() / 2), files.end());
    EXPECT_FALSE(File(directory / "f").scarce());
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(ReadText, ReturnsTheWholeFile) {
    const TempDir directory;
    put(directory / "short", "abc");
    put(directory / "empty", "");
    EXPECT_EQ(read_text(directory / "short"), "abc");
    EXPECT_EQ(read_text(directory / "empty"), "");
}

TEST(ReadText, RefusesWhatIsNoFileAndSaysWhy) {
    const TempDir directory;
    ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
    const auto expect_refused = [&](const std::filesystem::path& path, const std::string& reason) {
        const auto error = ThrowsMessage<IoError>(AllOf(HasSubstr(path.string()), HasSubstr(reason)));
        EXPECT_THAT([&] { MappedFile file(path); }, error);
        EXPECT_THAT([&] { read_text(path); }, error);
    };
    expect_refused(directory / "absent", "it does not exist");
    expect_refused(directory.path(), "expected a regular file, got a directory");
    expect_refused(directory / "pipe", "expected a regular file, got a named pipe");  // without waiting for a writer
    expect_refused("/dev/zero", "expected a regular file, got a character device");
}

TEST(WriteFile, ReplacesTheFileByAllPiecesInOrder) {
    const TempDir directory;
    put(directory / "f", "the old and longer content");
    const std::vector<std::span<const std::byte>> pieces = {as_bytes("one "), as_bytes(""), as_bytes("two")};
    write_file(directory / "f", pieces);
    EXPECT_EQ(read_text(directory / "f"), "one two");
    write_file(directory / "f", "");
    EXPECT_EQ(read_text(directory / "f"), "");
    const std::string big(5 << 20, 'q');
    write_file(directory / "new", big);
    EXPECT_EQ(read_text(directory / "new"), big);
    EXPECT_THAT(names_in(directory), ::testing::UnorderedElementsAre("f", "new"));
}

TEST(WriteFile, TakesANameWithoutADirectory) {
    const TempDir directory;
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(directory.path());
    write_file("bare", "x");
    std::filesystem::current_path(before);
    EXPECT_EQ(read_text(directory / "bare"), "x");
}

TEST(TemporaryFile, IsNotThereBeforeItIsRenamed) {
    const TempDir dir;
    for (const bool nameless : {true, false}) {
        const std::filesystem::path target = dir / (nameless ? "nameless" : "named");
        for (const bool renamed : {false, true}) {
            {
                TemporaryFile file(target, nameless);
                EXPECT_EQ(write_bytes(file.get(), as_bytes("text")), 4U);
                EXPECT_TRUE(!renamed || file.rename_to(target));
            }
            EXPECT_EQ(std::filesystem::exists(target), renamed);
        }
        EXPECT_EQ(read_text(target), "text");
    }
    EXPECT_EQ(names_in(dir).size(), 2U);
}

TEST(WriteFile, StepsAroundAnotherProcesssTemporaryFile) {
    const TempDir directory;
    const std::string taken = "f.tmp-" + std::to_string(::getpid()) + "-0";
    put(directory / taken, "not ours");
    write_file(directory / "f", "ours");
    EXPECT_EQ(read_text(directory / "f"), "ours");
    EXPECT_EQ(read_text(directory / taken), "not ours");
}

TEST(WriteFile, NeedsNoHardLinks) {
    const TempDir directory;
    bool refused = false;
    std::string error;
    std::thread([&] {
        refused = stoker::testing::refuse_call(__NR_linkat, EPERM);
        try {
            write_file(directory / "file", "first");
            write_file(directory / "file", "second");
        } catch (const Error& thrown) {
            error = thrown.what();
        }
    }).join();
    if (!refused) {
        GTEST_SKIP() << "needs seccomp";
    }
    EXPECT_EQ(error, "");
    EXPECT_EQ(read_text(directory / "file"), "second");
    EXPECT_EQ(list_folder(directory.path()).size(), 1u) << "no temporary file is left";
}

TEST(WriteFile, SaysWhereItCannotWrite) {
    const TempDir directory;
    const auto missing = directory / "no/such/f";
    EXPECT_THAT([&] { write_file(missing, "x"); },
                ThrowsMessage<IoError>(AllOf(HasSubstr(missing.string()), HasSubstr("it does not exist"))));
    std::filesystem::create_directory(directory / "d");
    EXPECT_THAT([&] { write_file(directory / "d", "x"); },
                ThrowsMessage<IoError>(AllOf(HasSubstr("a name to write to"), HasSubstr("it is a directory"))));
    EXPECT_THAT([&] { sync_directory(directory / "absent"); }, ThrowsMessage<IoError>(HasSubstr("absent")));
    EXPECT_THAT(names_in(directory), ::testing::ElementsAre("d")) << "a failed write leaves nothing behind";
}

TEST(WriteFile, RefusesAReadOnlyDirectory) {
    if (::geteuid() == 0) {
        GTEST_SKIP() << "root may write anywhere";
    }
    const TempDir directory;
    put(directory / "f", "old");
    using std::filesystem::perms;
    std::filesystem::permissions(directory.path(), perms::owner_read | perms::owner_exec);
    EXPECT_THAT([&] { write_file(directory / "f", "new"); },
                ThrowsMessage<IoError>(HasSubstr("permission was denied")));
    std::filesystem::permissions(directory.path(), perms::owner_all);
    EXPECT_EQ(read_text(directory / "f"), "old");
}

// The limit on file sizes replaces a full disk: both fail in the middle of a write.
TEST(WriteFile, LeavesTheOldContentWhereThereIsNoRoom) {
    const TempDir directory;
    put(directory / "f", "old");
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit tight{100000, before.rlim_max};
    const auto handler = ::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
    EXPECT_THAT([&] { write_file(directory / "f", std::string(300000, 'n')); },
                ThrowsMessage<IoError>(AllOf(HasSubstr("room to write"), HasSubstr("limit on file sizes"))));
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    ::signal(SIGXFSZ, handler);
    EXPECT_EQ(read_text(directory / "f"), "old");
    EXPECT_THAT(names_in(directory), ::testing::ElementsAre("f"));
}

TEST(WriteFile, WritersSideBySideNeverMix) {
    const TempDir directory;
    const auto path = directory / "f";
    {
        std::vector<std::jthread> writers;
        for (const char letter : {'a', 'b', 'c', 'd'}) {
            writers.emplace_back([&, letter] {
                for (int i = 0; i < 20; ++i) {
                    write_file(path, std::string(static_cast<std::size_t>(letter - 'a' + 1) * 30000, letter));
                    EXPECT_TRUE(is_whole(read_text(path)));
                }
            });
        }
    }
    const std::string last = read_text(path);
    ASSERT_TRUE(is_whole(last));
    EXPECT_EQ(last.size(), static_cast<std::size_t>(last.front() - 'a' + 1) * 30000);
    EXPECT_THAT(names_in(directory), ::testing::ElementsAre("f"));
}

[[noreturn]] void rewrite_for_ever(const std::filesystem::path& path, std::atomic<bool>& writing) {
    const auto write = [&](const std::string& content) {
        writing = true;
        write_file(path, content);
        writing = false;
    };
    try {
        for (;;) {
            write(std::string(300000, 'a'));
            write(std::string(500000, 'b'));
        }
    } catch (...) {
        ::_exit(1);
    }
}

TEST(WriteFile, KilledAtAnyMomentLeavesOldOrNewContent) {
    const TempDir directory;
    const auto path = directory / "f";
    write_file(path, std::string(300000, 'a'));
    const int nameless = ::open(directory.path().c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
    void* const shared =
        ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    auto& writing = *new (shared) std::atomic<bool>(false);
    int killed_while_writing = 0;
    int left = 0;
    for (int round = 0; round < 60; ++round) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            rewrite_for_ever(path, writing);
        }
        std::this_thread::sleep_for(std::chrono::microseconds(500 + round * 331));
        ASSERT_EQ(::kill(child, SIGKILL), 0);
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status)) << "the child could not write";

        const std::string content = read_text(path);
        ASSERT_TRUE(is_whole(content)) << "round " << round;
        ASSERT_EQ(content.size(), content.front() == 'a' ? 300000u : 500000u) << "round " << round;
        killed_while_writing += writing ? 1 : 0;
        for (const std::string& name : names_in(directory)) {
            if (name != "f") {
                ++left;
                std::filesystem::remove(directory / name);
            }
        }
    }
    EXPECT_GT(killed_while_writing, 0) << "no kill hit a write: the test proves nothing";
    if (nameless >= 0) {  // the file has a name only between link and rename
        EXPECT_LT(4 * left, killed_while_writing);
        ::close(nameless);
    }
    ::munmap(shared, sizeof(std::atomic<bool>));
}

}  // namespace
}  // namespace stoker
