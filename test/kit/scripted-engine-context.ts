import 'vitest'

declare module 'vitest' {
  interface ProvidedContext {
    /** Addresses of the raw engine that runs beside the tests inside workerd. */
    rawEngine: { readonly engineUrl: string; readonly controlUrl: string }
  }
}
