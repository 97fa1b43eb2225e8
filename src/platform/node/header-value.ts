/** A header's value without the blanks around it: spaces and tabs, where `trim` would take more (RFC 9110, 5.6.3). */
export function headerValue(line: string, from: number): string {
  let to = line.length
  while (from < to && isBlank(line.charCodeAt(from))) from++
  while (to > from && isBlank(line.charCodeAt(to - 1))) to--
  return line.slice(from, to)
}

const isBlank = (code: number): boolean => code === 32 || code === 9
