/** The Worker with an object that can be evicted, lose alarms and get a wrong clock, and with short caches. */
import { env } from 'cloudflare:workers'
import { ConfigSource } from '../../../src/platform/workers/config-source.ts'
import type { GatewayEnv } from '../../../src/platform/workers/gateway-builder.ts'
import { IsolateGateway } from '../../../src/platform/workers/isolate-gateway.ts'
import { ClusterObject as PoolObject } from '../../../src/worker.ts'
import type { ObjectFault } from './object-fault.ts'

export { EdgeObject, LimitObject, TtftObject } from '../../../src/worker.ts'

interface ChaosEnv extends GatewayEnv {
  readonly CLUSTER: DurableObjectNamespace<ClusterObject>
  /** Speed of this edge's clock for checks of its configuration. */
  readonly TIME_SCALE: string
}

/** Outlasts the object, as its machine's clock does. */
let aheadMs = 0
let deafUntilMs = 0

export class ClusterObject extends PoolObject {
  constructor(ctx: DurableObjectState, bound: ChaosEnv) {
    const { storage } = ctx
    const set = storage.setAlarm.bind(storage)
    // The machine's alarms use the machine's clock.
    Object.assign(storage, {
      setAlarm: (at: number, options?: DurableObjectSetAlarmOptions) => set(at - aheadMs, options),
    })
    super(ctx, bound)
  }

  disturb({ kind, ms }: ObjectFault): void {
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

const live = new IsolateGateway(new ConfigSource(() => Date.now() * Number((env as unknown as ChaosEnv).TIME_SCALE)))

export default {
  async fetch(request, bound, ctx) {
    const { pathname, searchParams } = new URL(request.url)
    if (!pathname.startsWith('/_chaos/')) return live.fetch(request, bound, ctx)
    const object = bound.CLUSTER.getByName(searchParams.get('object') ?? '')
    if (pathname === '/_chaos/digest') return object.fetch('http://object/digest')
    await object.disturb((await request.json()) as ObjectFault).catch(() => undefined)
    return new Response('done')
  },
} satisfies ExportedHandler<ChaosEnv>
