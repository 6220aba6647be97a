// Bulk TCP flows over one bottleneck in ns-3, timed: the scenarios of compare.py, run by the peer.
//
// The topology is cwndlab's dumbbell with one host on either side: sender - router - router - receiver, fast access
// links without delay, a bottleneck with rate, delay and a drop-tail queue counted in packets. CUBIC, SACK, timestamps,
// window scaling, delayed ACKs and segments of 1448 bytes, as on the other side. Nothing is traced: packets are counted
// at the end, from the bytes that arrived. Prints one line of JSON.

#include <ctime>
#include <iostream>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-helper.h"

using namespace ns3;

namespace
{

constexpr uint32_t SEGMENT_BYTES = 1448;
constexpr uint16_t PORT = 5201;

double
CpuSeconds()
{
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

NetDeviceContainer
Link(Ptr<Node> from, Ptr<Node> to, const std::string& rate, const std::string& delay, uint32_t queuePackets)
{
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue(rate));
    link.SetChannelAttribute("Delay", StringValue(delay));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, queuePackets)));
    return link.Install(from, to);
}

Ipv4InterfaceContainer
Assign(const NetDeviceContainer& devices, const char* network)
{
    // Queues are the devices' own: without a queue discipline above them, as in cwndlab's hosts.
    TrafficControlHelper trafficControl;
    Ipv4AddressHelper addresses(network, "255.255.255.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    trafficControl.Uninstall(devices);
    return interfaces;
}

} // namespace

int
main(int argc, char* argv[])
{
    std::string rate = "1Gbps";
    std::string access = "10Gbps";
    std::string delay = "20.5ms";
    uint32_t queue = 83;
    uint32_t flows = 1;
    uint32_t buffer = 64 << 20;
    double seconds = 20;
    double startSpread = 0;
    CommandLine command(__FILE__);
    command.AddValue("rate", "of the bottleneck", rate);
    command.AddValue("access", "rate of the access links", access);
    command.AddValue("delay", "of the bottleneck, one way", delay);
    command.AddValue("queue", "packets waiting at the bottleneck", queue);
    command.AddValue("flows", "number of flows", flows);
    command.AddValue("buffer", "send and receive buffer of each flow, bytes", buffer);
    command.AddValue("seconds", "length of the run", seconds);
    command.AddValue("start-spread", "flows start evenly over so many seconds", startSpread);
    command.Parse(argc, argv);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::TcpCubic")));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT_BYTES));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));

    NodeContainer nodes(4);
    InternetStackHelper().Install(nodes);
    const uint32_t ample = 1 << 20;
    Assign(Link(nodes.Get(0), nodes.Get(1), access, "0ms", ample), "10.0.0.0");
    Assign(Link(nodes.Get(1), nodes.Get(2), rate, delay, queue), "10.0.1.0");
    Ipv4InterfaceContainer right = Assign(Link(nodes.Get(2), nodes.Get(3), access, "0ms", ample), "10.0.2.0");
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    PacketSinkHelper sinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), PORT));
    ApplicationContainer sinks = sinkHelper.Install(nodes.Get(3));
    sinks.Start(Seconds(0));

    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(right.GetAddress(1), PORT));
    bulk.SetAttribute("MaxBytes", UintegerValue(0));
    bulk.SetAttribute("SendSize", UintegerValue(131072));
    for (uint32_t flow = 0; flow < flows; flow++)
    {
        bulk.Install(nodes.Get(0)).Start(Seconds(startSpread * flow / flows));
    }

    Simulator::Stop(Seconds(seconds));
    const double before = CpuSeconds();
    Simulator::Run();
    const double cpu = CpuSeconds() - before;

    const uint64_t bytes = DynamicCast<PacketSink>(sinks.Get(0))->GetTotalRx();
    std::cout << "{\"cpu_s\": " << cpu << ", \"goodput_bytes\": " << bytes
              << ", \"events\": " << Simulator::GetEventCount() << "}" << std::endl;
    Simulator::Destroy();
    return 0;
}
