/** Engines that serve a request; `runnersUp` are for an edge that loses its connection to the object. */
export type Placement =
  | { readonly kind: 'whole'; readonly engine: string; readonly runnersUp: readonly string[] }
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
