// Additive increase, multiplicative decrease in C++:
//
//     cwndlab dev schema --cc-header > cwndlab_cc.h
//     g++ -std=c++17 -O2 -shared -fPIC aimd.cpp -o libaimd.so
//     cwndlab run FILE --cc aimd=libaimd.so
#include <algorithm>

#include "cwndlab_cc.h"

namespace {

class Aimd {
public:
	void on_ack(cwndlab_flow &flow)
	{
		if (flow.cwnd < flow.ssthresh)
			flow.cwnd += flow.acked;
		else
			flow.cwnd += flow.mss * flow.acked / flow.cwnd;
	}

	void on_loss(cwndlab_flow &flow)
	{
		flow.cwnd = std::max(flow.cwnd / 2, 2 * flow.mss);
	}
};

const cwndlab_cc_ops interface = {
	CWNDLAB_CC_VERSION,
	sizeof(cwndlab_cc_ops),
	[](cwndlab_flow *) -> void * { return new Aimd; },
	[](void *self) { delete static_cast<Aimd *>(self); },
	[](void *self, cwndlab_flow *flow) { static_cast<Aimd *>(self)->on_ack(*flow); },
	[](void *self, cwndlab_flow *flow) { static_cast<Aimd *>(self)->on_loss(*flow); },
	nullptr,
	nullptr,
};

} // namespace

extern "C" const cwndlab_cc_ops *cwndlab_cc()
{
	return &interface;
}
