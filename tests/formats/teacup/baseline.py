# The baseline experiments of CAIA technical report 140502A, as a configuration of TEACUP 0.4.5 describes them.

import sys
import datetime
from fabric.api import env

env.user = 'root'
env.password = 'none'
env.shell = '/bin/sh -c'

TPCONF_script_path = '/home/teacup/teacup-0.4.5'
sys.path.append(TPCONF_script_path)

TPCONF_debug_level = 0

TPCONF_router = ['newtcprt3', ]
TPCONF_hosts = ['newtcp20', 'newtcp27', ]

TPCONF_host_internal_ip = {
    'newtcprt3': ['172.16.10.1', '172.16.11.1'],
    'newtcp20': ['172.16.10.3'],
    'newtcp27': ['172.16.11.2'],
}

TPCONF_host_os = {
    'newtcprt3': 'Linux',
    'newtcp20': 'FreeBSD',
    'newtcp27': 'FreeBSD',
}

TPCONF_max_time_diff = 1

now = datetime.datetime.today()
TPCONF_test_id = now.strftime("%Y%m%d-%H%M%S") + '_baseline'

TPCONF_remote_dir = '/tmp/'
TPCONF_runs = 1

TPCONF_router_queues = [
    ('1', " source='172.16.10.0/24', dest='172.16.11.0/24', delay=V_delay, "
     " loss=V_loss, rate=V_up_rate, queue_disc=V_aqm, queue_size=V_bsize "),
    ('2', " source='172.16.11.0/24', dest='172.16.10.0/24', delay=V_delay, "
     " loss=V_loss, rate=V_down_rate, queue_disc=V_aqm, queue_size=V_bsize "),
]

traffic_iperf = [
    ('0.0', '1', " start_iperf, client='newtcp20', server='newtcp27', port=5000, "
     " duration=V_duration, buf_size='600000' "),
]
TPCONF_traffic_gens = traffic_iperf

TPCONF_duration = 90
TPCONF_TCP_algos = ['newreno', 'cubic', ]
TPCONF_host_TCP_algos = {}
TPCONF_host_TCP_algo_params = {}
TPCONF_host_init_custom_cmds = {}
TPCONF_delays = [0, 5, 10, 20, 40, 80, 100]
TPCONF_loss_rates = [0]
TPCONF_bandwidths = [
    ('2mbit', '2mbit'),
    ('6mbit', '6mbit'),
    ('10mbit', '10mbit'),
]
TPCONF_aqms = ['pfifo', ]
TPCONF_buffer_sizes = [50, 90, 180]

TPCONF_parameter_list = {
    'delays': (['V_delay'], ['del'], TPCONF_delays, {}),
    'loss': (['V_loss'], ['loss'], TPCONF_loss_rates, {}),
    'tcpalgos': (['V_tcp_cc_algo'], ['tcp'], TPCONF_TCP_algos, {}),
    'aqms': (['V_aqm'], ['aqm'], TPCONF_aqms, {}),
    'bsizes': (['V_bsize'], ['bs'], TPCONF_buffer_sizes, {}),
    'runs': (['V_runs'], ['run'], range(TPCONF_runs), {}),
    'bandwidths': (['V_down_rate', 'V_up_rate'], ['down', 'up'], TPCONF_bandwidths, {}),
}

TPCONF_variable_defaults = {
    'V_duration': TPCONF_duration,
    'V_delay': TPCONF_delays[0],
    'V_loss': TPCONF_loss_rates[0],
    'V_tcp_cc_algo': TPCONF_TCP_algos[0],
    'V_down_rate': TPCONF_bandwidths[0][0],
    'V_up_rate': TPCONF_bandwidths[0][1],
    'V_aqm': TPCONF_aqms[0],
    'V_bsize': TPCONF_buffer_sizes[0],
}

TPCONF_vary_parameters = ['tcpalgos', 'bandwidths', 'delays', 'aqms', 'bsizes', 'runs', ]
