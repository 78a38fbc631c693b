// Starts the peer's script and reads its JSON document.
#include "engine/bench/ladder_peer.h"

#include <cstdlib>

#include "cli/bench/digits_files.h"
#include "stoker/base/error.h"

namespace stoker::cli {
namespace fs = std::filesystem;

const std::vector<std::string>& peer_rungs() {
    static const std::vector<std::string> rungs = {"python workers=0", "python workers=2", "python workers=8",
                                                   "python in-memory"};
    return rungs;
}

PeerFigures run_peer(const Peer& peer, const PeerRun& run, const std::atomic<int>& stop) {
    const auto document = ask_peer(peer,
                                   {"--data", run.data, "--rung", run.rung, "--device", run.device, "--epochs",
                                    std::to_string(run.epochs), "--seed", std::to_string(run.seed), "--json"},
                                   stop);
    if (!document.contains("rungs") || document["rungs"].empty()) {
        throw Error(
            {.where = peer.script, .expected = "a JSON document with rungs", .got = document.dump().substr(0, 80)});
    }
    const auto& rung = document["rungs"][0];
    return {.seconds = rung.at("seconds").get<double>(), .accuracy = rung.at("accuracy").get<double>()};
}

SharedData::SharedData(const std::string& data) : path_(data) {
    const std::string format(open_dataset(data, Split::train)->format());
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
        write_digits(*open_dataset(data, split), split, made_, false, progress);
    }
    progress.clear();
}

}  // namespace stoker::cli
