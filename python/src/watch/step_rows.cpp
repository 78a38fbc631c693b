// stoker._watch.StepRows: a step appends to one piece of memory. Lines are formatted together, once in an interval.
#include "python/src/watch/step_rows.h"

#include <algorithm>
#include <charconv>
#include <new>
#include <string>

namespace stoker::watch {

PyTypeObject* rows_type = nullptr;

namespace {

StepRows* of(PyObject* self) {
    return reinterpret_cast<StepRows*>(self);
}

void append(std::string& out, const char* name, long long number) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    out.append("\"").append(name).append("\":").append(digits.data(), end);
}

long long microseconds(std::int64_t nanoseconds) {  // rounded, also below zero
    const std::int64_t up = nanoseconds + 500;
    return up >= 0 ? up / 1000 : -((-up + 999) / 1000);
}

// What is not known, and phases that took no time, are left out.
void append_line(std::string& out, int rank, long long step, const StepRow& row) {
    out += "{\"type\":\"step\",\"schema\":1,";
    append(out, "rank", rank);
    append(out += ',', "step", step);
    append(out += ',', "epoch", row.epoch);
    if (row.samples > 0) {
        append(out += ',', "samples", row.samples);
    }
    if (row.ready >= 0) {
        append(out += ',', "ready", row.ready);
    }
    if (row.copied > 0) {
        append(out += ',', "copy_bytes", row.copied);
    }
    out += ",\"us\":{";
    bool first = true;
    for (std::size_t phase = 0; phase < row.times.size(); ++phase) {
        if (row.times[phase] == 0) {
            continue;
        }
        if (!first) {
            out += ',';
        }
        append(out, kPhaseNames[phase], microseconds(row.times[phase]));
        first = false;
    }
    out += "}}\n";
}

PyObject* create(PyTypeObject* type, PyObject*, PyObject*) {
    PyObject* self = PyType_GenericAlloc(type, 0);
    if (self == nullptr) {
        return nullptr;
    }
    of(self)->rows = new (std::nothrow) std::vector<StepRow>;
    of(self)->due = Py_NewRef(Py_None);
    if (of(self)->rows == nullptr) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return self;
}

PyObject* take_lines(PyObject* self, PyObject* argument) {
    const long rank = PyLong_AsLong(argument);
    if (PyErr_Occurred()) {
        return nullptr;
    }
    std::vector<StepRow>& rows = *of(self)->rows;
    try {
        std::string lines;
        Times sums{};
        long long step = of(self)->steps - static_cast<long long>(rows.size());
        for (const StepRow& row : rows) {
            append_line(lines, static_cast<int>(rank), ++step, row);
            for (std::size_t phase = 0; phase < sums.size(); ++phase) {
                sums[phase] += row.times[phase];
            }
        }
        rows.clear();
        PyObject* text = PyUnicode_DecodeUTF8(lines.data(), static_cast<Py_ssize_t>(lines.size()), nullptr);
        return text == nullptr ? nullptr : Py_BuildValue("(NN)", text, list_of(sums));
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(of(self)->due);
    return 0;
}

int clear(PyObject* self) {
    Py_CLEAR(of(self)->due);
    return 0;
}

void destroy(PyObject* self) {
    PyObject_GC_UnTrack(self);
    clear(self);
    delete of(self)->rows;
    free_object(self);
}

PyMethodDef methods[] = {
    {"take_lines", take_lines, METH_O,
     "The lines of the steps since the last call, for a rank, and the sums of their times by phase."},
    {nullptr, nullptr, 0, nullptr},
};
PyMemberDef members[] = {
    {"steps", T_LONGLONG, offsetof(StepRows, steps), READONLY, nullptr},
    {"batches", T_LONGLONG, offsetof(StepRows, batches), READONLY, nullptr},
    {"samples", T_LONGLONG, offsetof(StepRows, samples), READONLY, nullptr},
    {"until", T_LONGLONG, offsetof(StepRows, until), 0, nullptr},
    {"due", T_OBJECT, offsetof(StepRows, due), 0, nullptr},
    {"paused", T_BOOL, offsetof(StepRows, paused), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_new, slot(create)},
    {Py_tp_dealloc, slot(destroy)},
    {Py_tp_traverse, slot(traverse)},
    {Py_tp_clear, slot(clear)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, nullptr},
};
PyType_Spec spec = {"stoker._watch.StepRows", sizeof(StepRows), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace

bool StepRows::add(const StepRow& row, std::int64_t now) {
    ++steps;
    batches += row.batches;
    samples += row.samples;
    if (paused) {
        return true;
    }
    try {
        rows->push_back(row);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    if (now < until || due == nullptr || due == Py_None) {
        return true;
    }
    PyObject* call = Py_NewRef(due);
    PyObject* done = PyObject_CallNoArgs(call);
    Py_DECREF(call);
    Py_XDECREF(done);
    return done != nullptr;
}

bool add_rows(PyObject* module) {
    rows_type = add_type(module, &spec);
    return rows_type != nullptr;
}

}  // namespace stoker::watch
