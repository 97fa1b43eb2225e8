/** A Worker bundled from the sources as they are now, as it is deployed but for the short names. */
const script = new URL('./build-worker.mjs', import.meta.url).href

interface Builder {
  bundleWorker(entry: URL): Promise<{ readonly code: string }>
  workerText(library: string): Promise<string>
}

const builder = (await import(script)) as Builder

/** The module's text, to be run by workerd. */
export const bundleWorker = async (entry: URL): Promise<string> => (await builder.bundleWorker(entry)).code

/** What a library is in the Worker. */
export const { workerText } = builder
