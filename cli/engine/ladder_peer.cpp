// Starts the peer's script and reads its JSON document.
#include "ladder_peer.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "child.h"
#include "digits_files.h"
#include "stoker/base/error.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
    std::error_code unknown;
    return fs::is_regular_file(path, unknown) && access(path.c_str(), X_OK) == 0;
}

// As posix_spawnp looks: a name without a slash is searched for on PATH.
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

const std::vector<std::string>& peer_rungs() {
    static const std::vector<std::string> rungs = {"python workers=0", "python workers=2", "python workers=8",
                                                   "python in-memory"};
    return rungs;
}

void check_peer(const Peer& peer) {
    if (!can_be_run(peer.python)) {
        throw IoError({.where = peer.python,
                       .expected = "a Python interpreter for --peer",
                       .got = "no such program",
                       .hint = "pass --python with one that has torch and torchvision"});
    }
    std::error_code unknown;
    if (!fs::is_regular_file(peer.script, unknown)) {
        throw IoError({.where = peer.script,
                       .expected = "the script of --peer",
                       .got = "no such file",
                       .hint = "pass --peer-script with bench/peers/mnist_pytorch.py of Stoker's source folder"});
    }
}

PeerFigures run_peer(const Peer& peer, const PeerRun& run, const std::atomic<int>& stop) {
    const std::string text =
        run_child({peer.python, peer.script, "--data", run.data, "--rung", run.rung, "--device", run.device, "--epochs",
                   std::to_string(run.epochs), "--seed", std::to_string(run.seed), "--json"},
                  stop);
    const auto document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!document.is_object() || !document.contains("rungs") || document["rungs"].empty()) {
        throw Error({.where = peer.script, .expected = "a JSON document with rungs", .got = text.substr(0, 80)});
    }
    const auto& rung = document["rungs"][0];
    return {.seconds = rung.at("seconds").get<double>(), .accuracy = rung.at("accuracy").get<double>()};
}

SharedData::SharedData(const std::string& data) : path_(data) {
    const std::string format(open_source(data, Split::train)->format());
    if (format == "idx") {
        return;
    }
    if (!data.starts_with("synth:digits")) {
        throw InvalidArgument({.where = data, .expected = "IDX files or synth:digits for --peer", .got = format});
    }
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "stoker-ladder-XXXXXX").string();
    if (error || mkdtemp(name.data()) == nullptr) {
        throw IoError({.where = name.empty() ? "TMPDIR" : name,
                       .expected = "a place for the digits that both sides read",
                       .got = error ? error.message() : errno_text()});
    }
    made_ = path_ = name;
    try {
        write(data);
    } catch (...) {
        fs::remove_all(made_, error);
        throw;
    }
}

SharedData::~SharedData() {
    std::error_code ignored;  // a folder of temporary files may stay
    if (!made_.empty()) {
        fs::remove_all(made_, ignored);
    }
}

void SharedData::write(const std::string& data) {
    ProgressBar progress;
    for (const Split split : {Split::train, Split::test}) {
        write_digits(*open_source(data, split), split, made_, false, progress);
    }
    progress.clear();
}

}  // namespace stoker::cli
