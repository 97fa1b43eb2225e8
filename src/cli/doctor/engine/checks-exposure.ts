/** Endpoints that must not be public. On loopback this is only a note. */
import type { Findings, Severity } from '../finding.ts'
import type { Reach } from '../reach.ts'
import { type EngineFacts, inDevMode } from './facts.ts'

const markOf: Readonly<Record<Reach, Severity>> = { loopback: 'note', private: 'warning', public: 'problem' }

export function checkExposure(
  { reach, guarded, withoutKey, version, switches, events }: EngineFacts,
  found: Findings,
): void {
  const mark = guarded ? 'note' : markOf[reach]
  const here = guarded
    ? ' (with the headers of the configuration)'
    : reach === 'loopback'
      ? ' (reached over loopback: check that its port is bound to loopback)'
      : ''
  const open = [
    ...(inDevMode(switches) ? (['dev_mode'] as const) : []),
    ...(switches.loadsAdapters ? (['adapter_loading'] as const) : []),
    ...(switches.profiles ? (['profiler'] as const) : []),
  ]
  for (const check of open) {
    const { message, costs, next } = WORDS[check]
    found.add(mark, check, message + here, { costs, next })
  }
  if (reach === 'public' && !guarded && withoutKey !== 200 && version !== null) {
    found.warn('open_routes', 'vLLM’s key protects only /v1, and the address is public', {
      costs: 'Anyone can read /metrics and load the CPU with /tokenize.',
      next: 'Put a proxy or a tunnel in front that admits only the gateway.',
    })
  }
  for (const { endpoint, replayEndpoint } of events?.filter(({ enabled }) => enabled) ?? []) {
    const wide = [endpoint, replayEndpoint].filter((socket) => socket !== null && isOpen(socket))
    if (wide.length === 0) continue
    found.warn('event_sockets', `reachable from other hosts: ${wide.join(', ')}`, {
      costs: 'They have no authentication and expose the token ids of every prompt.',
      next:
        'Bind them to 127.0.0.1 in --kv-events-config and run firstlight bridge beside the engine, or block ' +
        'their ports by firewall.',
    })
  }
}

const WORDS = {
  dev_mode: {
    message: 'development endpoints are open',
    costs:
      'Anyone who reaches the port can stop the engine (/sleep, /pause), empty its cache (/reset_prefix_cache) ' +
      'and call its workers (/collective_rpc), without a key.',
    next:
      'Start it without VLLM_SERVER_DEV_MODE=1, or restrict the port to the gateway. The gateway uses only GET ' +
      '/is_paused.',
  },
  adapter_loading: {
    message: 'adapters can be loaded over HTTP',
    costs: 'A client with the key can load local files as adapters.',
    next: 'Start it without VLLM_ALLOW_RUNTIME_LORA_UPDATING.',
  },
  profiler: {
    message: 'the profiler can be started over HTTP',
    costs: 'Anyone who reaches the port can slow the engine down and fill its disk.',
    next: 'Start it without --profiler-config.',
  },
} as const

/** True if the socket is bound to all addresses, or to one that other hosts can reach. */
function isOpen(socket: string): boolean {
  const host = /^tcp:\/\/(.*):\d+$/.exec(socket)?.[1]?.replace(/^\[|\]$/g, '')
  return host !== undefined && host !== 'localhost' && host !== '::1' && !host.startsWith('127.')
}
