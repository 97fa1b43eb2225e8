/** What strangers must not reach. Over the loopback nobody else is seen, so it only tells. */
import type { Findings, Mark } from '../finding.ts'
import type { Reach } from '../reach.ts'
import { inDevMode, type EngineFacts } from './facts.ts'

const markOf: Readonly<Record<Reach, Mark>> = { loopback: 'note', private: 'warning', public: 'problem' }

export function checkExposure({ reach, guarded, stranger, version, switches, events }: EngineFacts, found: Findings): void {
  const mark = guarded ? 'note' : markOf[reach]
  const here = guarded ? ' (to those who show the headers of the configuration)' : reach === 'loopback' ? ' (reached over the loopback: see that its port is bound to it)' : ''
  const open = [...(inDevMode(switches) ? (['dev_mode'] as const) : []), ...(switches.loadsAdapters ? (['adapter_loading'] as const) : []), ...(switches.profiles ? (['profiler'] as const) : [])]
  for (const check of open) {
    const { says, costs, next } = WORDS[check]
    found.add(mark, check, says + here, { costs, next })
  }
  if (reach === 'public' && !guarded && stranger !== 200 && version !== null) {
    found.warn('open_routes', 'vLLM’s key guards /v1 and no more, at a public address', { costs: 'Strangers read its /metrics and keep its CPU busy with /tokenize.', next: 'Put a proxy or a tunnel in front that lets only the gateway in.' })
  }
  for (const { endpoint, replayEndpoint } of events?.filter(({ enabled }) => enabled) ?? []) {
    const wide = [endpoint, replayEndpoint].filter((socket) => socket !== null && isOpen(socket))
    if (wide.length === 0) continue
    found.warn('event_sockets', `open to everybody: ${wide.join(', ')}`, {
      costs: 'Who reaches them reads the token ids of every prompt: they ask nobody for anything.',
      next: 'Bind them to 127.0.0.1 in --kv-events-config and run firstlight bridge beside the engine, or shut their ports to all others.',
    })
  }
}

const WORDS = {
  dev_mode: {
    says: 'development endpoints are open',
    costs: 'Who reaches the port can stop it (/sleep, /pause), empty its cache (/reset_prefix_cache) and call into its workers (/collective_rpc), without a key.',
    next: 'Start it without VLLM_SERVER_DEV_MODE=1, or let only the gateway reach the port. The gateway itself uses none of them but GET /is_paused.',
  },
  adapter_loading: {
    says: 'adapters can be loaded over HTTP',
    costs: 'Who has its key can load files of its machine as adapters.',
    next: 'Start it without VLLM_ALLOW_RUNTIME_LORA_UPDATING.',
  },
  profiler: {
    says: 'its profiler can be started over HTTP',
    costs: 'Who reaches the port can slow it down and fill its disk.',
    next: 'Start it without --profiler-config.',
  },
} as const

/** Bound to all of its machine's addresses, or to one that others can reach. */
function isOpen(socket: string): boolean {
  const host = /^tcp:\/\/(.*):\d+$/.exec(socket)?.[1]?.replace(/^\[|\]$/g, '')
  return host !== undefined && host !== 'localhost' && host !== '::1' && !host.startsWith('127.')
}
