/** What a gateway does at the engine before it sends the request: it unloads adapters, then loads one. */
export interface AdapterLoad {
  readonly load: string
  readonly unload: readonly string[]
}

/** Engines that serve a request; `runnersUp` are for a gateway that loses its connection to the object. */
export type Placement =
  | {
      readonly kind: 'whole'
      readonly engine: string
      readonly runnersUp: readonly string[]
      /** Absent: the engine has the adapter of the request, or loads none on demand. */
      readonly adapter?: AdapterLoad
    }
  | { readonly kind: 'split'; readonly prefill: string; readonly decode: string; readonly runnersUp: readonly string[] }
  | {
      readonly kind: 'staged'
      readonly encode: readonly string[]
      readonly prefill: string | null
      readonly decode: string
      readonly runnersUp: readonly string[]
    }

/** Returns the engine that sends the response. */
export const servingEngine = (placement: Placement): string =>
  placement.kind === 'whole' ? placement.engine : placement.decode
