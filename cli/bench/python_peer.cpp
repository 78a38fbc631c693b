#include "cli/bench/python_peer.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "cli/terminal/subprocess.h"
#include "stoker/base/error.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
    std::error_code unknown;
    return fs::is_regular_file(path, unknown) && access(path.c_str(), X_OK) == 0;
}

// Searches as posix_spawnp does: a name without a slash is looked up on PATH.
bool can_be_run(const std::string& program) {
    if (program.find('/') != std::string::npos) {
        return is_program(program);
    }
    const char* path = std::getenv("PATH");
    std::istringstream folders(path != nullptr ? path : "/bin:/usr/bin");
    for (std::string folder; std::getline(folders, folder, ':');) {
        if (!program.empty() && is_program(fs::path(folder.empty() ? "." : folder) / program)) {
            return true;
        }
    }
    return false;
}

}  // namespace

void require_peer_script(const std::string& script, const std::string& option) {
    std::error_code unknown;
    if (!fs::is_regular_file(script, unknown)) {
        throw IoError({.where = script,
                       .expected = "a script of bench/peers in Stoker's source folder",
                       .got = "no such file",
                       .hint = "pass " + option});
    }
}

void check_python_peer(const PythonPeer& peer) {
    if (!can_be_run(peer.python)) {
        throw IoError({.where = peer.python,
                       .expected = "a Python interpreter for --peer",
                       .got = "no such program",
                       .hint = "pass --python with one that has torch and torchvision"});
    }
    require_peer_script(peer.script, "--peer-script");
}

nlohmann::json run_python_peer(const PythonPeer& peer, const std::vector<std::string>& arguments,
                               const std::atomic<int>& stop) {
    std::vector<std::string> command = {peer.python, peer.script};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const std::string text = run_subprocess(command, stop);
    auto document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!document.is_object()) {
        throw Error({.where = peer.script, .expected = "a JSON document", .got = text.substr(0, 80)});
    }
    return document;
}

}  // namespace stoker::cli
