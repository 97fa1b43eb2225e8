/**
 * The Worker under soak: the product's, but its object can be put down and deceived, and configurations are looked for
 * often.
 */
import { env } from 'cloudflare:workers'
import { ConfigSource } from '../../src/platform/workers/config-source.ts'
import { IsolateGateway, type GatewayEnv } from '../../src/platform/workers/isolate-gateway.ts'
import { ClusterObject as Books } from '../../src/worker.ts'
import type { Upheaval } from './upheaval.ts'

export { TtftObject } from '../../src/worker.ts'

interface SoakEnv extends GatewayEnv {
  readonly CLUSTER: DurableObjectNamespace<ClusterObject>
  /** How much faster this edge's clock runs where it decides to look for a configuration. */
  readonly TIME_SCALE: string
}

/** Outlasts the object, as the clock of its machine does. */
let aheadMs = 0
let deafUntilMs = 0

export class ClusterObject extends Books {
  constructor(ctx: DurableObjectState, bound: SoakEnv) {
    const { storage } = ctx
    const set = storage.setAlarm.bind(storage)
    // The machine's alarms go by the machine's clock.
    Object.assign(storage, {
      setAlarm: (at: number, options?: DurableObjectSetAlarmOptions) => set(at - aheadMs, options),
    })
    super(ctx, bound)
  }

  upset({ kind, ms }: Upheaval): void {
    if (kind === 'evicted') this.ctx.abort('evicted')
    if (kind === 'alarms lost') deafUntilMs = Date.now() + ms
    if (kind === 'clock set') aheadMs += ms
  }

  override async alarm(): Promise<void> {
    if (Date.now() >= deafUntilMs) await super.alarm()
  }

  protected override now(): number {
    return super.now() + aheadMs
  }
}

const live = new IsolateGateway(new ConfigSource(() => Date.now() * Number((env as unknown as SoakEnv).TIME_SCALE)))

export default {
  async fetch(request, bound, ctx) {
    const { pathname, searchParams } = new URL(request.url)
    if (!pathname.startsWith('/_soak/')) return live.fetch(request, bound, ctx)
    const object = bound.CLUSTER.getByName(searchParams.get('object') ?? '')
    if (pathname === '/_soak/digest') return object.fetch('http://object/digest')
    await object.upset((await request.json()) as Upheaval).catch(() => undefined)
    return new Response('done')
  },
} satisfies ExportedHandler<SoakEnv>
