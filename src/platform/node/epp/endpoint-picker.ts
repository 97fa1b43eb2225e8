/** The endpoint picker of the Gateway API Inference Extension: gRPC listeners, conversations and shutdown. */
import { OPTIONS_HEADER } from '../../../api/body/requested-options.ts'
import type { Config, EppConfig, LimitsConfig } from '../../../config.ts'
import { addressText } from '../../../config/address.ts'
import type { Gateway } from '../../../gateway.ts'
import type { Log } from '../../../ports/log.ts'
import { Background } from '../background.ts'
import { within } from '../within.ts'
import { type GrpcMethods, GrpcServer } from '../grpc/grpc-server.ts'
import { HealthService } from '../grpc/health-service.ts'
import { grpcCertificate } from '../grpc-certificate.ts'
import { Conversation, type ConversationParts } from './conversation.ts'
import { OBJECTIVE_HEADERS } from './destination.ts'
import type { HeaderMap } from './header-map.ts'

const SERVICE = 'envoy.service.ext_proc.v3.ExternalProcessor'

/** Room for the message around the longest body. */
const ENVELOPE_BYTES = 1024 * 1024

/** Time for releases after the last conversation, ms. */
const SETTLE_MS = 5_000

export interface EndpointPicker {
  /** `host:port`. */
  readonly address: string
  /** `host:port` of the listener for health checks. null: there is none. */
  readonly health: string | null
  /** Conversations that run. */
  readonly running: number
  /** Uses the priorities of a new configuration. Reports itself healthy once the engines have been listed. */
  adopt(config: PriorityConfig): void
  /** Ends new conversations, waits for running ones within the limit or until `now`, and abandons the others. */
  stop(limitMs: number, now: AbortSignal): Promise<void>
}

/** Where priorities of objectives come from. */
interface PriorityConfig {
  readonly epp: EppConfig | null
  readonly discovered?: Config['discovered'] | undefined
}

interface PickerOptions {
  readonly epp: EppConfig
  readonly discovered: Config['discovered'] | undefined
  readonly limits: Pick<LimitsConfig, 'bodyBytes'>
  /** Folder of relative file names. */
  readonly folder: string
  /** Other threads listen on the same ports. */
  readonly reusePort: boolean
  readonly now: () => number
  readonly log: Log
}

/** Rejects with the system's error if a port cannot be opened, or with a ConfigError for a bad certificate. */
export async function openPicker(
  gateway: { readonly place: NonNullable<Gateway['place']> },
  options: PickerOptions,
): Promise<EndpointPicker> {
  const picker = new Picker(gateway, options)
  await picker.listen()
  return picker
}

class Picker implements EndpointPicker {
  readonly #options: PickerOptions
  readonly #conversations = new Set<Conversation>()
  readonly #background: Background
  readonly #services = new HealthService([
    ['', false],
    ['liveness', true],
    ['readiness', false],
    [SERVICE, false],
  ])
  readonly #server: GrpcServer
  readonly #healthServer: GrpcServer | null
  readonly #stopWatching: () => void
  /** `stopping`: no new conversations. `abandoning`: the running ones are ended, too. */
  #phase: 'serving' | 'stopping' | 'abandoning' = 'serving'
  #prepare: (headers: HeaderMap) => void
  address = ''
  health: string | null = null

  constructor(gateway: { readonly place: NonNullable<Gateway['place']> }, options: PickerOptions) {
    const { epp, limits, reusePort, now, log } = options
    this.#options = options
    this.#prepare = objectiveClasses(prioritiesOf(options))
    this.#background = new Background((error) => log.error('background_failed', { error }))
    const parts: ConversationParts = {
      place: (request, conversation) =>
        gateway.place(request, {
          background: (work) => this.#background.add(work),
          client: conversation,
          remoteAddress: null,
          isClosing: () => this.#phase === 'abandoning',
          delivery: conversation,
        }),
      maxFallbacks: epp.fallbacks,
      prepare: (headers) => this.#prepare(headers),
      now,
      ended: (conversation) => void this.#conversations.delete(conversation),
    }
    const health: GrpcMethods = new Map([
      ['/grpc.health.v1.Health/Check', (call) => this.#services.check(call)],
      ['/grpc.health.v1.Health/Watch', (call) => this.#services.watch(call)],
    ])
    const common = {
      reusePort,
      maxStreams: epp.maxStreams,
      messageBytes: limits.bodyBytes + ENVELOPE_BYTES,
      failed: (error: unknown) => log.error('endpoint_picker_failed', { error }),
    }
    const certificate = grpcCertificate(epp.tls, options.folder)
    this.#server = new GrpcServer({
      ...common,
      ...epp.listen,
      tls: certificate.tls,
      methods: new Map([...health, [`/${SERVICE}/Process`, (call) => this.#opened(new Conversation(call, parts))]]),
    })
    this.#stopWatching = certificate.watch(this.#server, log)
    this.#healthServer =
      epp.health === null ? null : new GrpcServer({ ...common, ...epp.health, tls: null, methods: health })
  }

  get running(): number {
    return this.#conversations.size
  }

  adopt(config: PriorityConfig): void {
    this.#prepare = objectiveClasses(prioritiesOf(config))
    this.#serveIfListed(config)
  }

  /** It remains healthy when a reload adds engines that are not listed yet. */
  #serveIfListed({ discovered }: Pick<PriorityConfig, 'discovered'>): void {
    if (discovered?.isListed !== false && this.#phase === 'serving') this.#services.serving(true)
  }

  async listen(): Promise<void> {
    const { epp } = this.#options
    this.address = addressText({ host: epp.listen.host, port: await this.#server.listen() })
    try {
      if (this.#healthServer !== null)
        this.health = addressText({ host: epp.health!.host, port: await this.#healthServer.listen() })
    } catch (error) {
      await this.stop(0, AbortSignal.abort())
      throw error
    }
    this.#serveIfListed(this.#options)
  }

  async stop(limitMs: number, now: AbortSignal): Promise<void> {
    this.#phase = 'stopping'
    this.#stopWatching()
    this.#services.serving(false)
    // Watchers of the health service would keep their connections open.
    setImmediate(() => this.#services.close())
    const closed = Promise.all([this.#server.close(), this.#healthServer?.close()])
    if (!(await within(closed, limitMs, now))) {
      this.#phase = 'abandoning'
      for (const conversation of this.#conversations) conversation.abandon()
      this.#server.destroy()
      this.#healthServer?.destroy()
      await closed
    }
    await within(this.#background.settled(), SETTLE_MS, null)
  }

  #opened(conversation: Conversation): Conversation {
    this.#conversations.add(conversation)
    return conversation
  }
}

/** Configured priorities take precedence over those of resources. */
const prioritiesOf = ({ epp, discovered }: PriorityConfig): EppConfig['objectives'] => ({
  ...discovered?.objectives,
  ...epp?.objectives,
})

/** Adds the class of the objective that a request names. Unknown objectives have the priority 0. */
function objectiveClasses(objectives: EppConfig['objectives']): (headers: HeaderMap) => void {
  if (Object.keys(objectives).length === 0) return () => undefined
  return (headers) => {
    const named = OBJECTIVE_HEADERS.map((header) => headers.get(header)).find((name) => name !== null)
    if (named === undefined || named === null) return
    const priority = Object.hasOwn(objectives, named) ? objectives[named]! : 0
    const requestClass = priority > 0 ? 'critical' : priority < 0 ? 'sheddable' : 'standard'
    headers.setDefault(OPTIONS_HEADER, JSON.stringify({ class: requestClass }))
  }
}
