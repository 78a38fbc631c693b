// What the hooks of a watch (stoker/watch) share: the account of the training thread, the state of its steps, and
// flags. They are structs of C, because a hook that reads attributes of Python objects takes microseconds where
// PyTorch's code has taken its memory out of the caches, six times in a step.
#pragma once

#include <Python.h>
#include <structmember.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace stoker::watch {

// The order and the names of docs/records.md.
enum Phase : int { Wait, Copy, Forward, Backward, Optimizer, Communication, Sync, Checkpoint, Unmeasured };
inline constexpr std::array<const char*, 9> kPhaseNames = {
    "wait", "copy", "forward", "backward", "optimizer", "communication", "sync", "checkpoint", "unmeasured"};
inline constexpr std::array<const char*, 3> kSumNames = {"samples", "fetch", "core"};  // of a FetchClock
enum Sum : std::size_t { Samples, Fetch, Core };
using Times = std::array<std::int64_t, kPhaseNames.size()>;  // nanoseconds

std::int64_t nanoseconds();       // of the clock of time.perf_counter_ns
std::int64_t core_nanoseconds();  // of time.thread_time_ns

// The training thread's time by phase: stoker._watch.Account.
struct Account {
    PyObject_HEAD int phase;
    std::int64_t since;
    Times times;

    int enter(int next);
    std::int64_t running() const;
};

struct StepRows;

// What a step is made of: the base of stoker.watch.steps.Steps.
struct StepState {
    PyObject_HEAD Account* account;
    StepRows* rows;
    char training;        // it is decided: a proof of training changes nothing
    char in_parts;        // some of the step's time has been settled
    PyObject* asked;      // weak reference to the iterator of the last batch, while its next one changes nothing
    PyObject* optimizer;  // weak reference to the one that counts
    PyObject* trained;    // a set: ids of modules
    long long per_batch;  // samples in a batch of the loader: 0 where each is measured; -1 before its first one
    long long batches;    // that are in no step yet
    long long samples;    // likewise
    long long ready;      // batches that workers had finished; -1 where that is not known
    long long copied;     // bytes to the device since the last boundary
    long long others;     // steps of other optimizers since the one that counts has made one
    long long epoch;
    long long backwards;

    // The step ends now. False: Python has an error.
    bool close(const Times* parts);
};

// The base of stoker.watch.state.HookState.
struct HookFlags {
    PyObject_HEAD Account* account;
    StepState* steps;
    PyObject* fail;            // takes an error of the watch
    PyObject* around;          // called before and after an outermost module that learns; null or None: nothing is
    unsigned long thread;      // that is watched; 0 after the end, when hooks pass everything on
    int base;                  // the phase after a batch or a backward pass; within an optimizer's closure its own
    char inside;               // an outermost module runs
    char in_backward;          // the running step of an optimizer lies within a backward pass
    char stepped_in_backward;  // an optimizer has made its step within the running backward pass
    char begun;                // a step of an optimizer that is not counted yet
    char steady;               // nothing is to be done after a step but to write it down
    char reading;              // a read of a tensor runs, which may be made of others
    char moving;

    bool here() const { return PyThread_get_thread_ident() == thread; }
};

extern PyTypeObject* account_type;
extern PyTypeObject* rows_type;
extern PyTypeObject* steps_type;
extern PyTypeObject* flags_type;

// They add their types to the module. False: Python has an error.
bool add_account(PyObject* module);
bool add_rows(PyObject* module);
bool add_steps(PyObject* module);
bool add_flags(PyObject* module);
bool add_hooks(PyObject* module);

// For objects of heap types.
void free_object(PyObject* self);
PyTypeObject* add_type(PyObject* module, PyType_Spec* spec);
template <class Function>
void* slot(Function function) {
    return reinterpret_cast<void*>(function);
}

PyObject* list_of(const Times& times);
bool times_of(PyObject* list, Times& times);

}  // namespace stoker::watch
