import type { TtftConfig } from '../../config.ts'
import type { ReportPartial } from '../../core/reports/partial.ts'
import type { Ports, Ttft } from '../../ports.ts'
import { Outbox } from '../../telemetry/outbox.ts'

/** Long enough for a batch, short enough for whoever asks next. */
const DELAY_MS = 250

/** Keeps reports as before, and passes each on in batches to the gateway of `relay`, if there is one at the time; a repeat does no harm there. */
export function relayed(ttft: Ttft, relay: () => TtftConfig['relay'], ports: Required<Pick<Ports, 'post'>> & Pick<Ports, 'now' | 'log'>): Ttft {
  const { now, log } = ports
  const outbox = new Outbox<ReportPartial>({
    name: 'relay',
    delayMs: DELAY_MS,
    now,
    log,
    async send(partials) {
      const to = relay()
      if (to === null) return
      const headers = { 'content-type': 'application/json', ...(to.token === null ? {} : { authorization: `Bearer ${to.token}` }) }
      const status = await ports.post(`${to.url}/ttft_report`, headers, JSON.stringify(partials.map(toWire)))
      // What it refuses it will refuse again, but a wrong token can be set right.
      if (status >= 300 && status !== 400) throw new Error(`the gateway that keeps the reports answered ${status}`)
    },
  })
  const scope = { background: (work: Promise<unknown>) => void work }
  return {
    ...ttft,
    async report(partials) {
      if (relay() !== null) for (const partial of partials) outbox.add(partial, scope)
      return ttft.report(partials)
    },
  }
}

/** As `readPartial` reads it. */
export function toWire({ role, id, values, chunk, chunks, last, item, serial }: ReportPartial): Record<string, unknown> {
  return {
    role,
    request_id: id,
    ...Object.fromEntries(values),
    ...(chunk === null ? {} : { chunk }),
    ...(chunks === null ? {} : { chunks }),
    ...(last ? { last } : {}),
    ...(item === null ? {} : { item }),
    ...(serial === null ? {} : { serial }),
  }
}
