/** What comes of a stream until it ends, however it does. */
export async function readAll(stream: NodeJS.ReadableStream): Promise<string> {
  let text = ''
  try {
    for await (const piece of stream) text += String(piece)
  } catch {
    // Broken off: what came is what counts.
  }
  return text
}
