"""Words of the English-German grammar: what `data.generators` inflects and puts in order."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Noun:
    """A noun; English and German forms share an index: 0 singular, 1 plural.

    Attributes:
        gender: `m`, `f` or `n`.
        genitive: German genitive singular; a masculine one without -s marks a weak noun, whose
            accusative and dative look the same (der Junge, den Jungen, dem Jungen, des Jungen).
    """

    english: tuple[str, str]
    german: tuple[str, str]
    gender: str
    genitive: str


@dataclass(frozen=True)
class Verb:
    """A verb.

    Attributes:
        english: base, third person and past; words after the first are particles.
        prefix: the separable German prefix, or nothing.
        german: first and third person singular, infinitive (also the plural), participle; each
            without the prefix.
        auxiliary: `haben` or `sein`, for the perfect.
    """

    english: tuple[str, str, str]
    prefix: str
    german: tuple[str, str, str, str]
    auxiliary: str


def _nouns(table: str) -> tuple[Noun, ...]:
    rows = (line.split() for line in table.strip().splitlines())
    return tuple(
        Noun((one, many), (ein, viele), gender, genitive)
        for one, many, gender, ein, viele, genitive in rows
    )


def _verbs(table: str) -> tuple[Verb, ...]:
    verbs = []
    for line in table.strip().splitlines():
        english, german = (half.split(",") for half in line.split("|"))
        base, third, past = (form.strip() for form in english)
        prefix, first, he, infinitive, participle, auxiliary = (form.strip() for form in german)
        verbs.append(
            Verb((base, third, past), prefix, (first, he, infinitive, participle), auxiliary)
        )
    return tuple(verbs)


PEOPLE = _nouns("""
man men m Mann Männer Mannes
woman women f Frau Frauen Frau
child children n Kind Kinder Kindes
boy boys m Junge Jungen Jungen
girl girls n Mädchen Mädchen Mädchens
teacher teachers m Lehrer Lehrer Lehrers
neighbor neighbors m Nachbar Nachbarn Nachbarn
doctor doctors f Ärztin Ärztinnen Ärztin
student students m Student Studenten Studenten
sister sisters f Schwester Schwestern Schwester
farmer farmers m Bauer Bauern Bauern
painter painters f Malerin Malerinnen Malerin
dog dogs m Hund Hunde Hundes
cat cats f Katze Katzen Katze
horse horses n Pferd Pferde Pferdes
""")

THINGS = _nouns("""
book books n Buch Bücher Buches
letter letters m Brief Briefe Briefes
flower flowers f Blume Blumen Blume
apple apples m Apfel Äpfel Apfels
chair chairs m Stuhl Stühle Stuhls
lamp lamps f Lampe Lampen Lampe
picture pictures n Bild Bilder Bildes
key keys m Schlüssel Schlüssel Schlüssels
bottle bottles f Flasche Flaschen Flasche
ball balls m Ball Bälle Balles
knife knives n Messer Messer Messers
hat hats m Hut Hüte Hutes
clock clocks f Uhr Uhren Uhr
bicycle bicycles n Fahrrad Fahrräder Fahrrads
newspaper newspapers f Zeitung Zeitungen Zeitung
""")

PLACES = _nouns("""
garden gardens m Garten Gärten Gartens
house houses n Haus Häuser Hauses
street streets f Straße Straßen Straße
school schools f Schule Schulen Schule
forest forests m Wald Wälder Waldes
kitchen kitchens f Küche Küchen Küche
bridge bridges f Brücke Brücken Brücke
church churches f Kirche Kirchen Kirche
tree trees m Baum Bäume Baumes
ship ships n Schiff Schiffe Schiffes
""")

INTRANSITIVE = _verbs("""
sleep, sleeps, slept | , schlafe, schläft, schlafen, geschlafen, haben
laugh, laughs, laughed | , lache, lacht, lachen, gelacht, haben
work, works, worked | , arbeite, arbeitet, arbeiten, gearbeitet, haben
sing, sings, sang | , singe, singt, singen, gesungen, haben
wait, waits, waited | , warte, wartet, warten, gewartet, haben
disappear, disappears, disappeared | , verschwinde, verschwindet, verschwinden, verschwunden, sein
arrive, arrives, arrived | an, komme, kommt, kommen, gekommen, sein
get up, gets up, got up | auf, stehe, steht, stehen, gestanden, sein
fall asleep, falls asleep, fell asleep | ein, schlafe, schläft, schlafen, geschlafen, sein
""")

ACCUSATIVE_PEOPLE = _verbs("""
see, sees, saw | , sehe, sieht, sehen, gesehen, haben
visit, visits, visited | , besuche, besucht, besuchen, besucht, haben
love, loves, loved | , liebe, liebt, lieben, geliebt, haben
know, knows, knew | , kenne, kennt, kennen, gekannt, haben
call, calls, called | an, rufe, ruft, rufen, gerufen, haben
invite, invites, invited | ein, lade, lädt, laden, geladen, haben
pick up, picks up, picked up | ab, hole, holt, holen, geholt, haben
""")

ACCUSATIVE_THINGS = _verbs("""
find, finds, found | , finde, findet, finden, gefunden, haben
buy, buys, bought | , kaufe, kauft, kaufen, gekauft, haben
need, needs, needed | , brauche, braucht, brauchen, gebraucht, haben
forget, forgets, forgot | , vergesse, vergisst, vergessen, vergessen, haben
paint, paints, painted | , male, malt, malen, gemalt, haben
lift up, lifts up, lifted up | hoch, hebe, hebt, heben, gehoben, haben
throw away, throws away, threw away | weg, werfe, wirft, werfen, geworfen, haben
look at, looks at, looked at | an, sehe, sieht, sehen, gesehen, haben
take along, takes along, took along | mit, nehme, nimmt, nehmen, genommen, haben
""")

DATIVE = _verbs("""
help, helps, helped | , helfe, hilft, helfen, geholfen, haben
thank, thanks, thanked | , danke, dankt, danken, gedankt, haben
follow, follows, followed | , folge, folgt, folgen, gefolgt, sein
trust, trusts, trusted | , vertraue, vertraut, vertrauen, vertraut, haben
listen to, listens to, listened to | zu, höre, hört, hören, gehört, haben
watch, watches, watched | zu, schaue, schaut, schauen, geschaut, haben
""")

DITRANSITIVE = _verbs("""
give, gives, gave | , gebe, gibt, geben, gegeben, haben
show, shows, showed | , zeige, zeigt, zeigen, gezeigt, haben
send, sends, sent | , schicke, schickt, schicken, geschickt, haben
sell, sells, sold | , verkaufe, verkauft, verkaufen, verkauft, haben
lend, lends, lent | , leihe, leiht, leihen, geliehen, haben
offer, offers, offered | an, biete, bietet, bieten, geboten, haben
promise, promises, promised | , verspreche, verspricht, versprechen, versprochen, haben
""")

CLAUSE_TAKING = _verbs("""
know, knows, knew | , weiß, weiß, wissen, gewusst, haben
say, says, said | , sage, sagt, sagen, gesagt, haben
hope, hopes, hoped | , hoffe, hofft, hoffen, gehofft, haben
believe, believes, believed | , glaube, glaubt, glauben, geglaubt, haben
""")

MODALS = _verbs("""
can, can, could | , kann, kann, können, gekonnt, haben
must, must, had to | , muss, muss, müssen, gemusst, haben
want to, wants to, wanted to | , will, will, wollen, gewollt, haben
may, may, might | , darf, darf, dürfen, gedurft, haben
""")

AUXILIARIES = {"haben": ("habe", "hat", "haben"), "sein": ("bin", "ist", "sind")}

# English word and the German stem that takes the endings.
ADJECTIVES = (
    ("old", "alt"),
    ("young", "jung"),
    ("small", "klein"),
    ("big", "groß"),
    ("red", "rot"),
    ("new", "neu"),
    ("beautiful", "schön"),
    ("tired", "müd"),
    ("dark", "dunkl"),
    ("expensive", "teur"),
    ("heavy", "schwer"),
    ("quiet", "leis"),
    ("friendly", "freundlich"),
    ("strange", "seltsam"),
)

# English and German stem, each singular and plural ("" is no article), and the German endings:
# those of "der", of "dieser" or of "ein". The definite article comes often, as it does in life.
DETERMINERS = (
    (("the", "the"), ("", ""), "der"),
    (("the", "the"), ("", ""), "der"),
    (("the", "the"), ("", ""), "der"),
    (("this", "these"), ("dies", "dies"), "dieser"),
    (("every", "all"), ("jed", "all"), "dieser"),
    (("a", ""), ("ein", ""), "ein"),
    (("a", ""), ("ein", ""), "ein"),
    (("no", "no"), ("kein", "kein"), "ein"),
    (("my", "my"), ("mein", "mein"), "ein"),
    (("our", "our"), ("unser", "unser"), "ein"),
)

# English, German, and the index of the person's verb form in each language.
PRONOUNS = (
    ("I", "ich", 0, 0),
    ("he", "er", 1, 1),
    ("she", "sie", 1, 1),
    ("we", "wir", 0, 2),
    ("they", "sie", 0, 2),
)

ADVERBS = {
    "present": (
        ("today", "heute"),
        ("now", "jetzt"),
        ("often", "oft"),
        ("every morning", "jeden Morgen"),
    ),
    "perfect": (
        ("yesterday", "gestern"),
        ("last week", "letzte Woche"),
        ("in the evening", "am Abend"),
    ),
    "modal": (("tomorrow", "morgen"), ("soon", "bald"), ("next year", "nächstes Jahr")),
}

PREPOSITIONS = (
    ("in", "in", "dative"),
    ("behind", "hinter", "dative"),
    ("near", "bei", "dative"),
    ("in front of", "vor", "dative"),
)
CONTRACTIONS = {"in dem": "im", "bei dem": "beim"}

SUBORDINATORS = (("because", "weil"), ("although", "obwohl"), ("if", "wenn"), ("before", "bevor"))
COORDINATORS = (("and", "und"), ("but", "aber"))
