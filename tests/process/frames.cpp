// frames.cpp - frames of C++ between a thread and a verb, which must see the thread being cancelled.

extern "C" void through_frames(void (*enter)(void *), void *argument, volatile int *unwound);

namespace {
struct guard {
	volatile int *unwound;
	bool armed;
	~guard()
	{
		if (armed)
			*unwound = *unwound + 1;
	}
};
}

void through_frames(void (*enter)(void *), void *argument, volatile int *unwound)
{
	try {
		guard here = {unwound, true};
		enter(argument);
		here.armed = false;
	} catch (...) {
		*unwound = *unwound + 1;
		throw;
	}
}
