/** The place in the page: the hash of its address, `#/view/subject?query`. */

export interface HashParts {
  view: string;
  subject: string;
  query: URLSearchParams;
}

export function hashParts(hash: string): HashParts {
  const [path = '', asked = ''] = hash.replace(/^#\/?/, '').split('?');
  const [view = '', subject = ''] = path.split('/');
  return { view, subject: decoded(subject), query: new URLSearchParams(asked) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}
